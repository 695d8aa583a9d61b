"""What imports what: drawn, and asked for one skill or tool."""
