//! lockstep-rocketmq
