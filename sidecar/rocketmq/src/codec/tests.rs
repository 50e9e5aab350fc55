mod bodies;
pub(crate) mod build;
mod frames;
mod json;
mod stored;
mod values;

/// The bytes of a hexadecimal text.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// The stored message of the protocol's golden values.
pub(crate) const GOLDEN_STORED: &str = "00000073daa320a73610a6860000000200000000000000000000000500000000000003e8\
    000000000000018bcfe568007f000001000027110000018bcfe568017f00000100002a9f00000000000000000000000000000005\
    68656c6c6f01540012544147530154616741024b455953016b3102";
