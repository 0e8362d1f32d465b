//! Tests only: fake peers, private servers, the integration suite.
