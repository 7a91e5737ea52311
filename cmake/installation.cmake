# What `cmake --install` lays out, and the package. The program works from anywhere: the presets are found from it, the plugin
# lies beside it.
include(GNUInstallDirs)
install(TARGETS stepcast RUNTIME)
if(STEPCAST_CUDA)
  install(TARGETS exec_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY model/presets DESTINATION ${CMAKE_INSTALL_DATADIR}/stepcast/model)
install(DIRECTORY import/patterns DESTINATION ${CMAKE_INSTALL_DATADIR}/stepcast/import)

# Man page and completion, by the program from what --help shows.
set(written ${CMAKE_BINARY_DIR}/manual)
file(MAKE_DIRECTORY ${written})
add_custom_command(TARGET stepcast POST_BUILD COMMENT ""
  COMMAND stepcast generate man > ${written}/stepcast.1
  COMMAND stepcast generate bash > ${written}/stepcast
  COMMAND stepcast generate zsh > ${written}/_stepcast)
install(FILES ${written}/stepcast.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${written}/stepcast DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
foreach(folder site-functions vendor-completions)  # where zsh looks below /usr/local, and below /usr in Debian
  install(FILES ${written}/_stepcast DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/${folder})
endforeach()

# Takes away what the last installation from this build folder laid out.
add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -DMANIFEST=${CMAKE_BINARY_DIR}/install_manifest.txt
  -P ${CMAKE_CURRENT_LIST_DIR}/uninstall.cmake)

# cpack in the build folder makes stepcast_VERSION_ARCHITECTURE.deb; its dependencies are those of the libraries it links.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME stepcast)
set(CPACK_PACKAGE_CONTACT "stepcast <stepcast@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "predicts the step time of distributed training, runs it, shows predicted beside measured")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "gnuplot-nox, fonts-dejavu-core")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "openmpi-bin")
include(CPack)
