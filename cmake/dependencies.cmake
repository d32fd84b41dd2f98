# Libraries that packages bring; one paragraph each.

# jansson: the JSON of checkpoints, arguments and metrics.
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
target_link_libraries(core PUBLIC PkgConfig::JANSSON)

# xxHash: the hashes in checkpoints.
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
target_link_libraries(core PUBLIC PkgConfig::XXHASH)
