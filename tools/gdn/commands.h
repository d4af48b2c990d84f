/* The commands of the gdn tool. Each gets argv[0] = its own name and returns the exit code:
 * 0 success, 1 it ran and something is wrong, 2 the command line was wrong. */
#ifndef GDN_TOOL_COMMANDS_H
#define GDN_TOOL_COMMANDS_H

int gdn_info_main(int argc, char **argv);  /* tools/gdn/info.c   */
int gdn_check_main(int argc, char **argv); /* tools/check        */
int gdn_bench_main(int argc, char **argv); /* bench/bench.c      */
int gdn_run_main(int argc, char **argv);   /* tools/gdn/run.c    */

#endif
