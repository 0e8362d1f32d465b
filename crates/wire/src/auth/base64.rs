//! Base64 without its padding, for what need not be secret from a clock: neither direction takes constant time.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;

pub fn encode(bytes: &[u8]) -> String {
    STANDARD_NO_PAD.encode(bytes)
}

/// `None` where a character is none of base64's, or where the end is cut or not as [`encode`]
/// writes it.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    STANDARD_NO_PAD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes_convert() {
        let examples: [(&[u8], &str); 7] = [
            (b"", ""),
            (b"f", "Zg"),
            (b"fo", "Zm8"),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg"),
            (b"fooba", "Zm9vYmE"),
            (&[0xfb, 0xef, 0xff], "++//"),
        ];
        for (bytes, text) in examples {
            assert_eq!(encode(bytes), text);
            assert_eq!(decode(text.as_bytes()).unwrap(), bytes);
        }
    }

    #[test]
    fn what_is_not_base64_is_refused() {
        for text in ["Z", "Zm9vY", "Zm9=", "Z m9v", "Zh", "Zm9vYmF"] {
            assert_eq!(decode(text.as_bytes()), None, "{text}");
        }
    }
}
