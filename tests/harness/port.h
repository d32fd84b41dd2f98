/* Meeting points of this machine. */
#ifndef DPX_TEST_PORT_H
#define DPX_TEST_PORT_H

int free_port(void); /* one that nobody uses, of TCP on the loopback interface; 0: there is none */

#endif
