//! Styles and measures text for terminals.

use console::{
    Alignment, Style, measure_text_width, pad_str, set_colors_enabled, strip_ansi_codes, style, truncate_str,
};

pub fn run() -> crate_uses::Result {
    set_colors_enabled(true);
    let text = style("styled").red().bold().to_string();
    println!("{text:?} {} {}", measure_text_width(&text), strip_ansi_codes(&text));
    println!("{:?}", Style::from_dotted_str("blue.on_white.underlined").apply_to(5).to_string());
    println!("{:?}", truncate_str(&text, 4, "…"));
    for alignment in [Alignment::Left, Alignment::Center, Alignment::Right] {
        println!("{:?}", pad_str("äb", 7, alignment, None));
    }
    set_colors_enabled(false);
    println!("{} {}", style("plain").green(), console::Term::stdout().is_term());
    Ok(())
}
