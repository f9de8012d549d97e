/* What the shared library exports: everything else is hidden. */
#ifndef PASSING_EXPORT_H
#define PASSING_EXPORT_H

#define PASSING_API __attribute__((visibility("default")))

#endif
