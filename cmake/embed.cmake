# Writes a text file as an array of C, which a program can hold.
#   cmake -DIN=tools/report/report.js -DOUT=build/gen/tools/report_js.gen.h -DNAME=report_js -P embed.cmake
file(READ ${IN} bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
get_filename_component(from ${IN} NAME)
file(WRITE ${OUT} "/* Generated from ${from}. */\nstatic const unsigned char ${NAME}[] = {\n${bytes}\n};\n")
