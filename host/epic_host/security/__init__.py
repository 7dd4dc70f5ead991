"""Who may do what: certificates and their authority, roles, mutual TLS."""
