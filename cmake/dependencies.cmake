# Libraries that packages bring; one paragraph each.

# jansson: the JSON of checkpoints, arguments and metrics.
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
target_link_libraries(core PUBLIC PkgConfig::JANSSON)

# xxHash: the hashes in checkpoints.
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
target_link_libraries(core PUBLIC PkgConfig::XXHASH)

# libsodium: the proofs by which processes of several machines recognise each other.
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)
target_link_libraries(core PUBLIC PkgConfig::SODIUM)

# protobuf-c reads and writes ONNX files, TensorBoard's records and SentencePiece's models.
pkg_check_modules(PROTOBUF_C REQUIRED IMPORTED_TARGET libprotobuf-c)
find_program(PROTOC_C protoc-c REQUIRED)

# add_proto(TARGET FILE): a library of a .proto file, translated at build time.  Its header is <NAME.pb-c.h>.  It is compiled without
# our warnings: it is not our code.
function(add_proto target file)
    get_filename_component(dir ${file} DIRECTORY)
    get_filename_component(name ${file} NAME_WE)
    set(out ${GEN}/${target})
    file(MAKE_DIRECTORY ${out})
    add_custom_command(OUTPUT ${out}/${name}.pb-c.c ${out}/${name}.pb-c.h
        COMMAND ${PROTOC_C} --proto_path=${dir} --c_out=${out} ${file} DEPENDS ${file} VERBATIM)
    add_library(${target} STATIC ${out}/${name}.pb-c.c)
    target_compile_options(${target} PRIVATE -w)
    target_include_directories(${target} SYSTEM PUBLIC ${out})
    target_link_libraries(${target} PUBLIC PkgConfig::PROTOBUF_C)
endfunction()

# The definition of the ONNX format comes from the onnx package, whose name for it differs.
find_file(DPX_ONNX_PROTO onnx/onnx.proto REQUIRED DOC "The definition of the ONNX format")
add_proto(onnx_proto ${DPX_ONNX_PROTO})
get_filename_component(onnx_proto_name ${DPX_ONNX_PROTO} NAME_WE)
file(WRITE ${GEN}/onnx_proto/onnx_proto.h.new "/* The translated definition of the ONNX format. */\n#include \"${onnx_proto_name}.pb-c.h\"\n")
configure_file(${GEN}/onnx_proto/onnx_proto.h.new ${GEN}/onnx_proto/onnx_proto.h COPYONLY)
target_link_libraries(core PUBLIC onnx_proto)

# RE2: the regular expressions of RegexFullMatch, whose words ONNX says they are in (kernels/ref/regex.cpp).
pkg_check_modules(RE2 REQUIRED IMPORTED_TARGET re2)
target_link_libraries(core PUBLIC PkgConfig::RE2)

# DLPack: the tensor header that array libraries share (a header only).
find_path(DLPACK_INCLUDE dlpack/dlpack.h REQUIRED)
target_include_directories(core PRIVATE ${DLPACK_INCLUDE})

# oneDNN: convolutions and matrix products of the CPU backend, 2.x or 3.x (kernels/cpu/onednn.c).
# Found by hand: Debian's package file asks for the development files of OpenCL, which we do not use.
find_path(DNNL_INCLUDE dnnl.h REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
target_include_directories(core SYSTEM PRIVATE ${DNNL_INCLUDE})
target_link_libraries(core PUBLIC ${DNNL_LIBRARY})
