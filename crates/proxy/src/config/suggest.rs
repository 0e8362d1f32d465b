//! Guesses what was meant by a word that is not known.

/// The nearest of some words, if one is near enough to have been meant.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A word much longer than any known word is not a mistyped one.
    if WORD_MAX < word.len() {
        return None;
    }
    let enough = (word.chars().count() / 3).max(1);
    let far = |known: &str| {
        let is_part = ABBREVIATION_MIN <= word.len().min(known.len())
            && (known.starts_with(word) || word.starts_with(known));
        if is_part { 1 } else { distance(word, known) }
    };
    let near = known.into_iter().map(|known| (far(known), known));
    near.filter(|(distance, _)| *distance <= enough)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// Counts the letters to insert, remove, replace or swap with the next until one word is the other.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let width = to.len() + 1;
    // cost[row * width + column]: from the first letters of one word to those of the other.
    let mut cost = vec![0; (from.len() + 1) * width];
    for row in 0..=from.len() {
        for column in 0..width {
            let at = row * width + column;
            cost[at] = match (row, column) {
                (0, _) => column,
                (_, 0) => row,
                _ => {
                    let differ = usize::from(from[row - 1] != to[column - 1]);
                    let swapped = 1 < row
                        && 1 < column
                        && from[row - 1] == to[column - 2]
                        && from[row - 2] == to[column - 1];
                    let swap = if swapped { cost[at - 2 * width - 2] + 1 } else { usize::MAX };
                    let replace = cost[at - width - 1] + differ;
                    replace.min(cost[at - width] + 1).min(cost[at - 1] + 1).min(swap)
                }
            };
        }
    }
    cost[cost.len() - 1]
}

const WORD_MAX: usize = 64;
const ABBREVIATION_MIN: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_counted() {
        for (from, to, want) in [
            ("", "", 0),
            ("limit", "limit", 0),
            ("limti", "limit", 1),
            ("limits", "limit", 1),
            ("", "abc", 3),
            ("wait", "stop", 4),
        ] {
            assert_eq!(distance(from, to), want, "{from} {to}");
            assert_eq!(distance(to, from), want, "{to} {from}");
        }
    }

    #[test]
    fn only_what_is_near_is_meant() {
        let known = ["listen", "workers", "clients_max"];
        assert_eq!(nearest("worker", known), Some("workers"));
        assert_eq!(nearest("client_max", known), Some("clients_max"));
        assert_eq!(nearest("clients", known), Some("clients_max"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest("", known), None);
        assert_eq!(nearest(&"x".repeat(1_000_000), known), None);
    }
}
