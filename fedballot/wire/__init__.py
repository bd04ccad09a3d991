"""What goes over the wire: packed arrays, and sums under masks."""
