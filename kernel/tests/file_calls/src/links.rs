//! Hard and symbolic links.

use std::fs::{self, File};

use crate::system::symlink;
use crate::{Row, show};

pub(crate) const ROWS: &[Row] = &[
    ("hard_link", || {
        fs::write("x", "abc")?;
        fs::hard_link("x", "y")?;
        fs::write("y", "changed")?;
        show::tree(".")
    }),
    ("hard_link.outlives.name", || {
        fs::write("x", "abc")?;
        fs::hard_link("x", "y")?;
        fs::remove_file("x")?;
        show::tree(".")
    }),
    ("hard_link.absent", || Ok(show::result(fs::hard_link("x", "y")))),
    ("hard_link.existing", || {
        fs::write("x", "")?;
        fs::write("y", "")?;
        Ok(show::result(fs::hard_link("x", "y")))
    }),
    ("hard_link.directory", || Ok(show::result(fs::create_dir("x").and_then(|()| fs::hard_link("x", "y"))))),
    ("symlink", || {
        fs::write("x", "abc")?;
        symlink("x", "y")?;
        Ok(format!("{} {}", fs::read_to_string("y")?, show::result(fs::read_link("y"))))
    }),
    ("symlink.metadata", || {
        fs::write("x", "abc")?;
        symlink("x", "y")?;
        let (link, target) = (fs::symlink_metadata("y")?, fs::metadata("y")?);
        Ok(format!("{} {}", show::metadata(&link), show::metadata(&target)))
    }),
    ("symlink.dangling", || {
        symlink("absent", "y")?;
        Ok(format!(
            "{} {} {}",
            show::success(fs::metadata("y")),
            show::success(fs::symlink_metadata("y")),
            show::result(fs::exists("y"))
        ))
    }),
    ("symlink.dangling.create", || {
        symlink("x", "y")?;
        fs::write("y", "abc")?;
        show::tree(".")
    }),
    ("symlink.dangling.create_new", || {
        symlink("x", "y")?;
        Ok(show::success(File::create_new("y")))
    }),
    ("symlink.to.directory", || {
        fs::create_dir("d")?;
        symlink("d", "l")?;
        fs::write("l/x", "abc")?;
        Ok(format!("{} {}", show::tree(".")?, fs::read_dir("l")?.count()))
    }),
    ("symlink.loop", || {
        symlink("y", "x")?;
        symlink("x", "y")?;
        Ok(show::success(fs::metadata("x")) + " " + &show::success(File::create("x")))
    }),
    ("symlink.chain.40", || {
        fs::write("0", "abc")?;
        for number in 1..=41 {
            let (target, path) = (format!("{}", number - 1), format!("{number}"));
            symlink(target.as_str(), path.as_str())?;
        }
        Ok(show::result(fs::read_to_string("40")) + " " + &show::success(fs::read_to_string("41")))
    }),
    ("symlink.absolute", || {
        symlink("/dev/null", "x")?;
        Ok(show::metadata(&fs::metadata("x")?))
    }),
    ("symlink.parent", || {
        fs::create_dir_all("d/e")?;
        fs::write("x", "abc")?;
        symlink("../../x", "d/e/l")?;
        fs::read_to_string("d/e/l")
    }),
    ("symlink.parent.of.target", || {
        fs::create_dir_all("d/e")?;
        fs::write("d/x", "abc")?;
        symlink("d/e", "l")?;
        fs::read_to_string("l/../x")
    }),
    ("symlink.existing", || Ok(show::result(fs::write("x", "").and_then(|()| symlink("y", "x"))))),
    ("symlink.empty", || Ok(show::result(symlink("", "x")))),
    ("symlink.remove_file", || {
        fs::write("x", "abc")?;
        symlink("x", "y")?;
        fs::remove_file("y")?;
        show::tree(".")
    }),
    ("symlink.remove_dir", || {
        fs::create_dir("d")?;
        symlink("d", "l")?;
        Ok(format!("{} {}", show::result(fs::remove_dir("l")), show::result(fs::remove_dir("l/"))))
    }),
    ("symlink.remove_dir_all", || {
        fs::create_dir("d")?;
        fs::write("d/x", "abc")?;
        symlink("d", "l")?;
        Ok(format!("{} {}", show::result(fs::remove_dir_all("l")), show::tree(".")?))
    }),
    ("symlink.rename", || {
        symlink("x", "y")?;
        fs::rename("y", "z")?;
        show::tree(".")
    }),
    ("symlink.rename.onto", || {
        fs::write("x", "abc")?;
        fs::write("z", "new")?;
        symlink("x", "y")?;
        fs::rename("z", "y")?;
        show::tree(".")
    }),
    ("read_link.file", || Ok(show::result(fs::write("x", "").and_then(|()| fs::read_link("x"))))),
    ("read_link.absent", || Ok(show::result(fs::read_link("x")))),
];
