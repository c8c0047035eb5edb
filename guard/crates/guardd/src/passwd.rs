// SPDX-License-Identifier: Apache-2.0
//! Names of users, from the text of `/etc/passwd`. Users of a directory service have none here and keep their number.

/// A name, or the number where there is none.
pub fn name(users: &str, uid: u32) -> String {
    let of = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    };
    users.lines().find_map(of).unwrap_or_else(|| format!("user {uid}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn whatever_is_in_the_file(
            pieces in proptest::collection::vec(proptest::sample::select(vec!["root", ":", "0", "-1", "\n", "é", "x"]), 0..40),
        ) {
            assert!(!name(&pieces.concat(), 0).is_empty());
        }
    }

    #[test]
    fn users_have_names_or_numbers() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbroken\n:x:5:5::/:\nalice:x:1001:1001::/home/alice:/bin/sh";
        assert_eq!((name(users, 0), name(users, 1001)), ("root".into(), "alice".into()));
        assert_eq!(
            (name(users, 5), name(users, 77), name("", 0)),
            ("user 5".into(), "user 77".into(), "user 0".into())
        );
    }
}
