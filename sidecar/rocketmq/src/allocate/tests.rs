use proptest::prelude::*;

use super::average;

fn members(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("m{n:04}")).collect()
}

fn shares(queues: usize, count: usize) -> String {
    let all: Vec<usize> = (0..queues).collect();
    let members = members(count);
    let share = |me: &String| {
        let share: Vec<String> = average(&all, &members, me).iter().map(ToString::to_string).collect();
        if share.is_empty() { "-".to_owned() } else { share.join(",") }
    };
    members.iter().map(share).collect::<Vec<_>>().join("|")
}

#[test]
fn shares_are_those_of_java() {
    assert_eq!(shares(8, 3), "0,1,2|3,4,5|6,7");
    assert_eq!(shares(4, 3), "0,1|2|3");
    assert_eq!(shares(3, 5), "0|1|2|-|-");
    assert_eq!(shares(16, 6), "0,1,2|3,4,5|6,7,8|9,10,11|12,13|14,15");
    assert_eq!(shares(8, 1), "0,1,2,3,4,5,6,7");
    assert_eq!(shares(5, 5), "0|1|2|3|4");
    assert_eq!(shares(0, 2), "-|-");
}

#[test]
fn a_member_that_is_not_listed_has_no_share() {
    assert!(average(&[1, 2, 3], &members(2), "stranger").is_empty());
    assert!(average(&[1, 2, 3], &[], "stranger").is_empty());
}

/// Written from the words "each gets an equal part, the first ones one more": deals the counts out one by one.
fn naive(queues: usize, count: usize) -> Vec<Vec<usize>> {
    let mut sizes = vec![0; count];
    for n in 0..queues {
        sizes[n % count] += 1;
    }
    let mut next = 0;
    sizes
        .into_iter()
        .map(|size| {
            (0..size)
                .map(|_| {
                    next += 1;
                    next - 1
                })
                .collect()
        })
        .collect()
}

proptest! {
    #[test]
    fn shares_agree_with_a_naive_version(queues in 0_usize..200, count in 1_usize..60) {
        let all: Vec<usize> = (0..queues).collect();
        let members = members(count);
        for (me, expected) in members.iter().zip(naive(queues, count)) {
            prop_assert_eq!(average(&all, &members, me), expected.as_slice());
        }
    }
}
