# A cached option of three values. AUTO takes the feature where it is found, ON fails where it is not.
function(gdn_tristate name default help)
  set(${name} ${default} CACHE STRING "${help} (AUTO, ON, OFF)")
  set_property(CACHE ${name} PROPERTY STRINGS AUTO ON OFF)
  if(NOT "${${name}}" MATCHES "^(AUTO|ON|OFF|TRUE|FALSE|YES|NO|1|0)$")
    message(FATAL_ERROR "${name} is '${${name}}'; it can be AUTO, ON or OFF.")
  endif()
endfunction()
