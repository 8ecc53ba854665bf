//! Escape sequences for terminals, without a terminal.

use crossterm::tty::IsTty;
use crossterm::{cursor, execute, queue, style, terminal};

pub fn run() -> crate_uses::Result {
    let mut text = Vec::new();
    queue!(text, cursor::MoveTo(2, 3), style::SetForegroundColor(style::Color::Red), style::Print("red"))?;
    execute!(text, style::ResetColor, terminal::Clear(terminal::ClearType::CurrentLine))?;
    println!("{:?}", String::from_utf8(text)?);
    println!("{:?}", style::Stylize::bold("bold").to_string());
    // What the machine that runs the program has is its own concern.
    println!("{}", !cfg!(target_os = "hermit") || (!std::io::stdout().is_tty() && terminal::size().is_err()));
    println!("{}", !cfg!(target_os = "hermit") || terminal::enable_raw_mode().is_err());
    Ok(())
}
