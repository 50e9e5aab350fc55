//! The tools of the tests do what they say.

#[cfg(test)]
mod amqp;
#[cfg(test)]
mod publishing;
#[cfg(test)]
mod tools;
