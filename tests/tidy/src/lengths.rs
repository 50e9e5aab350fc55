//! Files and functions stay short enough to be read in one go.

use crate::Source;

/// The most lines of a file.
const FILE: usize = 800;
/// The most lines of a function, signature and braces included, comments and empty lines left out.
const FUNCTION: usize = 70;

/// Files and functions that are too long.
pub fn offenders(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| source.is_rust() || is_script(source)) {
        let lines = source.text.lines().count();
        if lines > FILE {
            found.push(format!(
                "{}: {lines} lines, at most {FILE}: split it by what it is about",
                source.path
            ));
        }
        if source.is_rust() {
            for (line, length) in functions(source).into_iter().filter(|(_, length)| *length > FUNCTION) {
                found.push(format!(
                    "{}:{line}: a function of {length} lines, at most {FUNCTION}",
                    source.path
                ));
            }
        }
    }
    found
}

fn is_script(source: &Source) -> bool {
    source.path.ends_with(".sh") || source.path.ends_with(".py") || source.path.ends_with(".java")
}

/// Line and length of each function. rustfmt closes a function at the indentation at which it began.
fn functions(source: &Source) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, usize)> = None;
    let mut length = 0;
    for (number, line) in source.lines() {
        let indent = line.len() - line.trim_start().len();
        let text = line.trim_start();
        length += usize::from(!text.is_empty() && !text.starts_with("//"));
        match open {
            None if is_function(line) && !line.ends_with(';') && !line.ends_with('}') => {
                open = Some((number, indent));
                length = 1;
            }
            Some((first, at))
                if indent == at && (line.trim_start().starts_with('}') || line.ends_with(';')) =>
            {
                found.push((first, length));
                open = None;
            }
            _ => {}
        }
    }
    found
}

fn is_function(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let modifier = |word: &&str| {
        matches!(*word, "pub" | "const" | "async" | "extern" | "unsafe") || word.starts_with("pub(")
    };
    words.find(|word| !modifier(word)).is_some_and(|word| word == "fn")
}
