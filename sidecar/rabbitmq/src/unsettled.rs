//! Which deliveries of a channel are not settled, and how the fewest acknowledgements say that some are.

use std::collections::VecDeque;

use lockstep_model::Moment;

/// The unsettled deliveries of one channel. The broker numbers them 1, 2, 3 and so on, so that they stand in a row;
/// as many as the prefetch are out, and those behind the first of them that is out still.
#[derive(Debug)]
pub(crate) struct Unsettled<T> {
    /// The tag of the row's front.
    first: u64,
    row: VecDeque<Entry<T>>,
}

#[derive(Debug)]
struct Entry<T> {
    standing: Standing,
    arrived: Moment,
    kept: Option<T>,
}

/// How far the settlement of a delivery has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// No delivery of that tag has come.
    Unknown,
    /// Nothing was said of it.
    Out,
    /// The broker was told, and may not have read it.
    Written,
    /// The broker has read it.
    Settled,
}

/// One acknowledgement to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acknowledgement {
    /// Never 0, which would mean all.
    pub(crate) tag: u64,
    /// Whether it goes for everything before it too.
    pub(crate) multiple: bool,
}

/// A delivery whose tag does not follow the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfRow;

impl<T> Default for Unsettled<T> {
    fn default() -> Self {
        Self { first: 1, row: VecDeque::new() }
    }
}

impl<T> Unsettled<T> {
    /// A delivery has come.
    ///
    /// # Errors
    /// It is not the next one: the channel is not to be trusted.
    pub(crate) fn arrived(&mut self, tag: u64, at: Moment, kept: T) -> Result<(), OutOfRow> {
        if tag != self.next() {
            return Err(OutOfRow);
        }
        self.row.push_back(Entry { standing: Standing::Out, arrived: at, kept: Some(kept) });
        Ok(())
    }

    /// The tag of the next delivery.
    pub(crate) fn next(&self) -> u64 {
        self.first.saturating_add(self.row.len() as u64)
    }

    pub(crate) fn standing(&self, tag: u64) -> Standing {
        match tag {
            0 => Standing::Unknown,
            tag if tag < self.first => Standing::Settled,
            tag => self.entry(tag).map_or(Standing::Unknown, |entry| entry.standing),
        }
    }

    /// What was kept of a delivery that is not settled.
    pub(crate) fn kept(&self, tag: u64) -> Option<&T> {
        self.entry(tag)?.kept.as_ref()
    }

    /// When the oldest delivery came of which nothing was said.
    pub(crate) fn oldest(&self) -> Option<Moment> {
        self.row.iter().find(|entry| entry.standing == Standing::Out).map(|entry| entry.arrived)
    }

    /// Whether every delivery before this one is settled.
    pub(crate) fn is_front(&self, tag: u64) -> bool {
        self.first == tag
    }

    /// Whether nothing is out.
    pub(crate) fn is_empty(&self) -> bool {
        self.row.is_empty()
    }

    /// The acknowledgements for these rising tags, all of which are out. What lies without a hole behind the front goes in one;
    /// each other by itself, since one for several would take those between along.
    pub(crate) fn plan(&self, accepted: &[u64]) -> Vec<Acknowledgement> {
        let mut rest = accepted.iter().copied().peekable();
        let mut run = None;
        let mut in_run = 0_usize;
        for (tag, entry) in (self.first..).zip(&self.row) {
            if rest.next_if_eq(&tag).is_some() {
                run = Some(tag);
                in_run += 1;
            } else if entry.standing == Standing::Out {
                break;
            }
        }
        let run = run.map(|tag| Acknowledgement { tag, multiple: in_run > 1 });
        run.into_iter().chain(rest.map(|tag| Acknowledgement { tag, multiple: false })).collect()
    }

    /// The broker was told of it.
    pub(crate) fn written(&mut self, tag: u64) {
        self.set(tag, Standing::Written);
    }

    /// The broker has read what it was told of it.
    pub(crate) fn settled(&mut self, tag: u64) {
        self.set(tag, Standing::Settled);
        while self.row.front().is_some_and(|entry| entry.standing == Standing::Settled) {
            self.row.pop_front();
            self.first = self.first.saturating_add(1);
        }
    }

    fn set(&mut self, tag: u64, standing: Standing) {
        let index = tag.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        if let Some(entry) = index.and_then(|index| self.row.get_mut(index)) {
            entry.standing = standing;
            if standing == Standing::Settled {
                entry.kept = None;
            }
        }
    }

    fn entry(&self, tag: u64) -> Option<&Entry<T>> {
        self.row.get(usize::try_from(tag.checked_sub(self.first)?).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn out(count: u64) -> Unsettled<()> {
        let mut unsettled = Unsettled::default();
        for tag in 1..=count {
            unsettled.arrived(tag, Moment::from_millis(tag), ()).unwrap();
        }
        unsettled
    }

    fn planned(unsettled: &Unsettled<()>, accepted: &[u64]) -> Vec<(u64, bool)> {
        unsettled.plan(accepted).into_iter().map(|ack| (ack.tag, ack.multiple)).collect()
    }

    #[test]
    fn what_has_no_hole_before_it_goes_in_one_and_the_rest_one_by_one() {
        let unsettled = out(9);
        assert_eq!(planned(&unsettled, &[1, 2, 3, 5, 6, 9]), [(3, true), (5, false), (6, false), (9, false)]);
        assert_eq!(planned(&unsettled, &[2, 3]), [(2, false), (3, false)]);
        assert_eq!(planned(&unsettled, &[1]), [(1, false)]);
        assert_eq!(planned(&unsettled, &[]), []);
    }

    #[test]
    fn what_was_written_before_is_no_hole() {
        let mut unsettled = out(5);
        unsettled.written(2);
        assert_eq!(planned(&unsettled, &[1, 3]), [(3, true)]);
        // Nothing new: nothing is said of what was said.
        assert_eq!(planned(&unsettled, &[]), []);
        // The run ends at a tag that is out, never at one that the broker knows no more.
        assert_eq!(planned(&unsettled, &[1]), [(1, false)]);
    }

    #[test]
    fn the_row_goes_on_behind_what_is_settled() {
        let mut unsettled = out(4);
        for tag in [1, 2, 4] {
            unsettled.written(tag);
        }
        assert_eq!(unsettled.oldest(), Some(Moment::from_millis(3)));
        unsettled.settled(2);
        assert_eq!((unsettled.standing(1), unsettled.standing(2)), (Standing::Written, Standing::Settled));
        unsettled.settled(1);
        assert_eq!((unsettled.standing(1), unsettled.standing(2)), (Standing::Settled, Standing::Settled));
        assert!(unsettled.is_front(3));
        assert_eq!((unsettled.standing(3), unsettled.standing(4)), (Standing::Out, Standing::Written));
        assert_eq!((unsettled.standing(0), unsettled.standing(5)), (Standing::Unknown, Standing::Unknown));
        assert_eq!(planned(&unsettled, &[3]), [(3, false)]);
        unsettled.settled(4);
        unsettled.settled(3);
        assert!(unsettled.is_empty());
        assert_eq!(unsettled.next(), 5);
    }

    #[test]
    fn a_tag_out_of_the_row_is_refused() {
        let mut unsettled = out(2);
        assert_eq!(unsettled.arrived(4, Moment::ZERO, ()), Err(OutOfRow));
        assert_eq!(unsettled.arrived(2, Moment::ZERO, ()), Err(OutOfRow));
        assert_eq!(unsettled.arrived(3, Moment::ZERO, ()), Ok(()));
    }
}
