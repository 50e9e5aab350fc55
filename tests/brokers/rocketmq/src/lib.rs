//! lockstep-tests-rocketmq
