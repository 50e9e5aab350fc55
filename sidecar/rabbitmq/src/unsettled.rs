//! Which deliveries of a channel are not settled, and how the fewest acknowledgements say that some are.

use std::collections::VecDeque;

use lockstep_model::Moment;

/// The unsettled deliveries of one channel, as many as the prefetch. The broker numbers deliveries 1, 2, 3 and so on.
#[derive(Debug)]
pub(crate) struct Unsettled<T> {
    /// The tag of the next delivery.
    next: u64,
    /// By rising tags; what is missing below `next` is settled.
    out: VecDeque<Entry<T>>,
}

#[derive(Debug)]
struct Entry<T> {
    tag: u64,
    /// The broker was told of it.
    written: bool,
    arrived: Moment,
    kept: T,
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
        Self { next: 1, out: VecDeque::new() }
    }
}

impl<T> Unsettled<T> {
    /// A delivery has come.
    ///
    /// # Errors
    /// It is not the next one: the channel is not to be trusted.
    pub(crate) fn arrived(&mut self, tag: u64, at: Moment, kept: T) -> Result<(), OutOfRow> {
        if tag != self.next {
            return Err(OutOfRow);
        }
        self.next = self.next.saturating_add(1);
        self.out.push_back(Entry { tag, written: false, arrived: at, kept });
        Ok(())
    }

    /// The tag of the next delivery.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The tag of the oldest.
    pub(crate) fn first(&self) -> Option<u64> {
        self.out.front().map(|entry| entry.tag)
    }

    pub(crate) fn standing(&self, tag: u64) -> Standing {
        match self.entry(tag) {
            Some(entry) if entry.written => Standing::Written,
            Some(_) => Standing::Out,
            None if tag == 0 || tag >= self.next => Standing::Unknown,
            None => Standing::Settled,
        }
    }

    /// What was kept of a delivery that is not settled.
    pub(crate) fn kept(&self, tag: u64) -> Option<&T> {
        self.entry(tag).map(|entry| &entry.kept)
    }

    /// When the oldest delivery came of which nothing was said.
    pub(crate) fn oldest(&self) -> Option<Moment> {
        self.out.iter().find(|entry| !entry.written).map(|entry| entry.arrived)
    }

    /// How many are out of which nothing was said.
    pub(crate) fn untold(&self) -> usize {
        self.out.iter().filter(|entry| !entry.written).count()
    }

    /// Whether something that came is settled.
    pub(crate) fn has_settled(&self) -> bool {
        self.next > self.out.len() as u64 + 1
    }

    /// Whether all that came is settled.
    pub(crate) fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// The acknowledgements for these rising tags, all of which are out. Those before which nothing else is out go in one;
    /// each other by itself, since one for several would take those between along.
    pub(crate) fn plan(&self, accepted: &[u64]) -> Vec<Acknowledgement> {
        let mut rest = accepted.iter().copied().peekable();
        let mut run = None;
        let mut in_run = 0_usize;
        for entry in &self.out {
            if rest.next_if_eq(&entry.tag).is_some() {
                run = Some(entry.tag);
                in_run += 1;
            } else if !entry.written {
                break;
            }
        }
        let run = run.map(|tag| Acknowledgement { tag, multiple: in_run > 1 });
        run.into_iter().chain(rest.map(|tag| Acknowledgement { tag, multiple: false })).collect()
    }

    /// The broker was told of it.
    pub(crate) fn written(&mut self, tag: u64) {
        if let Some(entry) = self.index(tag).and_then(|index| self.out.get_mut(index)) {
            entry.written = true;
        }
    }

    /// The broker has read what it was told of it, if it was told anything.
    pub(crate) fn settled(&mut self, tag: u64) {
        let written = |index: &usize| self.out.get(*index).is_some_and(|entry| entry.written);
        if let Some(index) = self.index(tag).filter(written) {
            self.out.remove(index);
        }
    }

    fn entry(&self, tag: u64) -> Option<&Entry<T>> {
        self.out.get(self.index(tag)?)
    }

    fn index(&self, tag: u64) -> Option<usize> {
        self.out.binary_search_by_key(&tag, |entry| entry.tag).ok()
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
    fn what_is_settled_takes_no_room_and_is_no_hole() {
        let mut unsettled = out(4);
        for tag in [1, 2, 4] {
            unsettled.written(tag);
        }
        assert_eq!(unsettled.oldest(), Some(Moment::from_millis(3)));
        unsettled.settled(2);
        assert_eq!((unsettled.standing(1), unsettled.standing(2)), (Standing::Written, Standing::Settled));
        assert_eq!((unsettled.standing(3), unsettled.standing(4)), (Standing::Out, Standing::Written));
        assert_eq!((unsettled.standing(0), unsettled.standing(5)), (Standing::Unknown, Standing::Unknown));
        assert_eq!((unsettled.kept(2), unsettled.kept(3)), (None, Some(&())));
        unsettled.settled(3);
        assert_eq!(unsettled.standing(3), Standing::Out, "the broker was told nothing of it");
        unsettled.settled(1);
        unsettled.arrived(5, Moment::ZERO, ()).unwrap();
        assert_eq!(planned(&unsettled, &[3, 5]), [(5, true)]);
        for tag in [3, 4, 5] {
            unsettled.written(tag);
            unsettled.settled(tag);
        }
        assert_eq!((unsettled.out.len(), unsettled.next(), unsettled.oldest()), (0, 6, None));
    }

    #[test]
    fn a_tag_out_of_the_row_is_refused() {
        let mut unsettled = out(2);
        assert_eq!(unsettled.arrived(4, Moment::ZERO, ()), Err(OutOfRow));
        assert_eq!(unsettled.arrived(2, Moment::ZERO, ()), Err(OutOfRow));
        assert_eq!(unsettled.arrived(3, Moment::ZERO, ()), Ok(()));
    }
}
