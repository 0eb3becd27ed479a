"""vSphere: what a vCenter is asked to do in our own words, and the workers made with it."""
