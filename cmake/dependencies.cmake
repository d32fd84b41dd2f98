# Libraries that packages bring; one paragraph each.
