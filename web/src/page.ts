// What every kind of page shares: a page per format of results, found by its name.
export interface Report {
  /** Name of the file, as it was given. */
  file: string;
  content: Record<string, unknown>;
}

export interface Page {
  /** The `format` of the files that it shows. */
  format: string;
  title: string;
  /** Everything below the page's header. */
  render(reports: Report[], root: HTMLElement): void;
}
