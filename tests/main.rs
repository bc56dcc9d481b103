//! The integration tests, one binary. Each line below says what its module shows.
