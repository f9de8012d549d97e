/* The page that `passing report` fills in, as web/ bundles it: text that ends with a zero. */
  .section .rodata
  .global passing_report_page
  .hidden passing_report_page
passing_report_page:
  .incbin PASSING_REPORT_PAGE
  .byte 0
  .section .note.GNU-stack, "", %progbits
