# gdn check. What it makes of calls is in gdn_cases; see cases.cmake.
target_sources(gdn_tool PRIVATE
  check/check.c
  check/report.c)
target_link_libraries(gdn_tool PRIVATE gdn_cases)
