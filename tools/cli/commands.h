/* The commands of the gdn tool. argv[0] is the command's own name. They return the exit code: 0 success, 1 it ran and
 * something is wrong, 2 bad command line. */
#ifndef GDN_TOOL_COMMANDS_H
#define GDN_TOOL_COMMANDS_H

int gdn_info_main(int argc, char **argv);  /* tools/info.c   */
int gdn_check_main(int argc, char **argv); /* check        */
int gdn_bench_main(int argc, char **argv); /* bench/bench.c      */
int gdn_run_main(int argc, char **argv);   /* tools/run/run.c    */
int gdn_serve_main(int argc, char **argv); /* tools/serve/serve.c */

#endif
