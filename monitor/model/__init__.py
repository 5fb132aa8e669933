"""The values that flow through acceptd: frozen, with constructors that refuse the impossible. No I/O, no clock."""
