# cmake -DIN=file -DOUT=file -P embed.cmake: the bytes of a file as a list for a C array.
file(READ "${IN}" hex HEX)
string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," text "${hex}")
file(WRITE "${OUT}" "${text}\n")
