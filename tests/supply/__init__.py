"""What acceptd is made of beside its own code: known vulnerabilities (`audit`) and the list of parts (`sbom`)."""
