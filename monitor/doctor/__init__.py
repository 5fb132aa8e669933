"""What `acceptd doctor` looks at: everything outside acceptd that it needs, each finding with what to do about it."""
