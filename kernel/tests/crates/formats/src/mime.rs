//! Media types.

use mime::Mime;

pub fn run() -> crate_uses::Result {
    for text in ["text/html; charset=UTF-8", "multipart/form-data; boundary=\"a b\"", "image/svg+xml", "text", "a/b;c"] {
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
