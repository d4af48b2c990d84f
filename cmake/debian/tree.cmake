# Run by cpack before it packs the files that are installed: the packages' date, and documents as Debian's policy wants them.

# The date of files and of the changelog's entry: of the build where that is given (reproducible-builds.org), else of the commit, else of the file.
set(epoch "$ENV{SOURCE_DATE_EPOCH}")
if(NOT epoch)
  execute_process(COMMAND git -C "${CPACK_GDN_SOURCE_FOLDER}" log -1 --format=%ct OUTPUT_VARIABLE epoch
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT epoch MATCHES "^[0-9]+$")
  file(TIMESTAMP "${CPACK_GDN_SOURCE_FOLDER}/CHANGELOG.md" epoch "%s" UTC)
endif()
set(ENV{SOURCE_DATE_EPOCH} "${epoch}") # for dpkg-deb and the archive, too
if(CPACK_GENERATOR STREQUAL "DEB")
  find_program(gzip gzip REQUIRED)
  string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)

  execute_process(COMMAND sh "${CPACK_GDN_DEBIAN_FOLDER}/changelog.sh" "${CPACK_GDN_SOURCE_FOLDER}/CHANGELOG.md"
      "${CPACK_GDN_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}" "${CPACK_PACKAGE_CONTACT}" "${date}"
    OUTPUT_VARIABLE changelog COMMAND_ERROR_IS_FATAL ANY)

  foreach(component IN LISTS CPACK_COMPONENTS_ALL)
    string(TOUPPER "${component}" upper)
    set(package "${CPACK_DEBIAN_${upper}_PACKAGE_NAME}")
    set(root "${CPACK_TEMPORARY_DIRECTORY}/${component}")
    set(doc "${root}/usr/share/doc/${package}")
    file(WRITE "${doc}/changelog.Debian" "${changelog}")
    file(COPY_FILE "${CPACK_GDN_DEBIAN_FOLDER}/copyright" "${doc}/copyright")
    file(COPY_FILE "${CPACK_GDN_SOURCE_FOLDER}/CHANGELOG.md" "${doc}/changelog")
    file(REMOVE "${doc}/CHANGELOG.md" "${doc}/LICENSE") # changelog.gz and copyright
    file(GLOB pages "${root}/usr/share/man/man*/*")
    execute_process(COMMAND "${gzip}" -n9f "${doc}/changelog.Debian" "${doc}/changelog" ${pages} COMMAND_ERROR_IS_FATAL ANY)
    file(CHMOD_RECURSE "${root}/usr/share" FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  endforeach()
endif()
file(GLOB_RECURSE parts LIST_DIRECTORIES true "${CPACK_TEMPORARY_DIRECTORY}/*")
foreach(part IN LISTS parts)
  if(IS_DIRECTORY "${part}" AND NOT IS_SYMLINK "${part}")
    file(CHMOD "${part}" DIRECTORY_PERMISSIONS ${CPACK_GDN_FOLDER_PERMISSIONS})
  endif()
endforeach()
