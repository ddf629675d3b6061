/** Keys that were made on the first-event page, by site: they are shown there alone, and forgotten with the page. */
export const newKeys = new Map<string, string>()
