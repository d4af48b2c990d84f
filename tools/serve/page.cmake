# Writes the page as a C array and its Content-Security-Policy, which allows exactly its script and its style:
#   cmake -DFROM=page.html -DTO=page.inc.h -P page.cmake
function(hash_of element to) # base64 of the SHA-256 of what the page has between <element> and </element>
  string(REGEX MATCH "<${element}>(.*)</${element}>" all "${page}")
  string(SHA256 hex "${CMAKE_MATCH_1}")
  set(digits "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  set(made "")
  foreach(at RANGE 0 60 3) # three digits of 4 bits are two of 6
    string(SUBSTRING "${hex}" ${at} 3 three)
    math(EXPR high "0x${three} >> 6")
    math(EXPR low "0x${three} & 63")
    string(SUBSTRING "${digits}" ${high} 1 first)
    string(SUBSTRING "${digits}" ${low} 1 second)
    string(APPEND made "${first}${second}")
  endforeach()
  string(SUBSTRING "${hex}" 63 1 one)
  math(EXPR last "0x${one} << 2")
  string(SUBSTRING "${digits}" ${last} 1 first)
  set(${to} "'sha256-${made}${first}='" PARENT_SCOPE)
endfunction()

file(READ "${FROM}" bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
file(READ "${FROM}" page)
hash_of(script script)
hash_of(style style)
file(WRITE "${TO}" "static const char serve_page_policy[] = \"default-src 'none'; connect-src 'self'; script-src ${script}; style-src ${style}; \"
    \"base-uri 'none'; form-action 'none'; frame-ancestors 'none'\";
static const unsigned char serve_page[] = {
${bytes}
};
")
