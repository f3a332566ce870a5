"""What is seen: colours, labels, figures, controls and panels."""
