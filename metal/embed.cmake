# cmake -DSOURCES=a:b:... -DROOT=folder -DTEXT=file -DBYTES=file -P embed.cmake
#
# Metal compiles one text, without include files. Writes SOURCES, in this order, into one TEXT without the #include
# "..." between them, and its bytes into BYTES as a list for a C array.
string(REPLACE ":" ";" sources "${SOURCES}")
set(all "")
foreach(source IN LISTS sources)
  file(READ "${ROOT}/${source}" text)
  string(REGEX REPLACE "#include \"[^\"\n]*\"[^\n]*\n" "" text "${text}")
  string(APPEND all "#line 1 \"${source}\"\n${text}\n")
endforeach()
file(WRITE "${TEXT}" "${all}")
file(READ "${TEXT}" hex HEX)
string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
file(WRITE "${BYTES}" "${bytes}0x00\n")
