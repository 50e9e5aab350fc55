use std::{collections::VecDeque, task::Waker};

use lockstep_openwire::Destination;

use super::super::{ClientError, DeliveryEvent, wire::broken};

/// Events that a consumer may have untaken at most, far more than is ever asked for.
const INBOX_MOST: usize = 8192;

/// One consumer.
#[derive(Debug)]
pub(super) struct Slot {
    destination: Destination,
    inbox: VecDeque<DeliveryEvent>,
    /// Of the task that takes.
    waker: Option<Waker>,
    /// Why nothing comes any more.
    end: Option<ClientError>,
}

impl Slot {
    pub(super) const fn new(destination: Destination) -> Self {
        Self { destination, inbox: VecDeque::new(), waker: None, end: None }
    }

    pub(super) const fn destination(&self) -> &Destination {
        &self.destination
    }

    pub(super) const fn ended(&self) -> Option<&ClientError> {
        self.end.as_ref()
    }

    /// Nothing comes any more; the first reason stays.
    pub(super) fn end(&mut self, reason: &ClientError) {
        self.inbox.clear();
        self.end.get_or_insert_with(|| reason.clone());
        self.wake();
    }

    pub(super) fn arrived(&mut self, event: DeliveryEvent) -> Result<(), ClientError> {
        if self.inbox.len() >= INBOX_MOST {
            return Err(broken("more messages than were asked for"));
        }
        self.inbox.push_back(event);
        self.wake();
        Ok(())
    }

    /// Whom to wake when something comes.
    pub(super) fn watch(&mut self, waker: &Waker) {
        self.waker = Some(waker.clone());
    }

    pub(super) fn next(&mut self) -> Option<DeliveryEvent> {
        match &self.end {
            Some(reason) => Some(DeliveryEvent::Closed(reason.clone())),
            None => self.inbox.pop_front(),
        }
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Drop for Slot {
    /// Whoever waits finds that it is gone.
    fn drop(&mut self) {
        self.wake();
    }
}
