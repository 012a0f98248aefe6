"""One page per question; each builds its layout once and then only follows the state."""
