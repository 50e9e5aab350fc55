//! Java's average allocation. All members of a group must compute the same shares, Java members too; only a list with
//! repeats, which Java counts, is judged otherwise (ADR 0011).

/// This member's share of `queues` among `members`. Both must be sorted and without duplicates. Empty when `me` is not
/// listed.
pub(crate) fn average<'a, Q>(queues: &'a [Q], members: &[String], me: &str) -> &'a [Q] {
    let Some(index) = members.iter().position(|member| member == me) else { return &[] };
    let (total, count) = (queues.len(), members.len());
    let rest = total.checked_rem(count).unwrap_or_default();
    let size = match total.checked_div(count) {
        None => return &[],
        Some(_) if total <= count => 1,
        Some(share) => share + usize::from(index < rest),
    };
    // The members before the remainder's end have one queue more, so only the later ones start behind all of it.
    let start = index * size + if index < rest { 0 } else { rest };
    queues.get(start..(start + size).min(total)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
