//! Names of resources and of their types.

use mime::Mime;
use url::{Host, Url, form_urlencoded};

/// Media types.
pub fn mime() -> crate_uses::Result {
    for text in [
        "text/html; charset=UTF-8",
        "multipart/form-data; boundary=\"a b\"",
        "image/svg+xml",
        "text",
        "a/b;c",
    ] {
        match text.parse::<Mime>() {
            Ok(mime) => {
                println!("{mime} {} {} {:?}", mime.type_(), mime.subtype(), mime.suffix());
                println!("{:?} {:?}", mime.get_param(mime::CHARSET), mime.params().collect::<Vec<_>>());
            }
            Err(error) => println!("{error}"),
        }
    }
    let html: Mime = "TEXT/html; charset=utf-8".parse()?;
    println!("{} {}", html == mime::TEXT_HTML_UTF_8, html.essence_str() == mime::TEXT_HTML.as_ref());
    Ok(())
}

/// Parses, joins and changes URLs.
pub fn url() -> crate_uses::Result {
    let base = Url::parse("https://user:pä@Bücher.example:443/a/./b/../c d?q=1&q=%C3%BC#frag")?;
    println!("{base} {:?} {:?}", base.host(), base.port_or_known_default());
    println!("{:?} {:?}", base.query_pairs().collect::<Vec<_>>(), base.path_segments().map(Iterator::count));
    for reference in
        ["../x?y", "//other/z", "#new", "mailto:a@b", "http://[::1]:80/", "http://0x7f.1/", "https://a b/"]
    {
        match base.join(reference) {
            Ok(url) => println!("{reference}: {url} {:?}", url.host() == Some(Host::Domain("other"))),
            Err(error) => println!("{reference}: {error}"),
        }
    }
    let mut changed = base.clone();
    changed.set_port(Some(8080)).map_err(|()| "port")?;
    changed.query_pairs_mut().clear().append_pair("key &", "välue");
    changed.path_segments_mut().map_err(|()| "path")?.pop().push("new/part");
    println!("{changed} {:?}", changed.make_relative(&base));
    println!("{:?}", form_urlencoded::parse(b"a+b=%26&c").collect::<Vec<_>>());
    println!("{:?}", Url::from_file_path("/tmp/a b").map_err(|()| "file")?.to_file_path());
    Ok(())
}
