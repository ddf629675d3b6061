import { messages } from '../../messages/en.ts'

/** The texts of the page of all sites. */
export const texts = {
  sentence: (count: number) => `${messages.count(count, 'site')}. Visitors are those of the last 24 hours.`,
  add: 'Add a site',
  choose: 'Choose a site',
  chooseSentence: 'This session’s key can’t list sites: that needs the scope stats:read.',
  chooseHint: 'The site_id of its events.',
  open: 'Open',
  id: 'Site ID',
  idHint: 'The site_id of your events. It can’t be changed.',
  idExample: 'my-site',
  name: 'Name',
  zone: 'Time zone',
  missingId: 'Enter an ID of at most 64 characters.',
  taken: (id: string) => `A site “${id}” already exists. Choose another ID.`,
  columns: {
    site: 'Site',
    visitors: 'Visitors',
    trend: 'Last 24 hours',
    last: 'Last event',
    zone: 'Time zone',
  },
  trendOf: (site: string, highest: number) =>
    `${site}: visitors by hour, at most ${messages.count(highest, 'visitor')}`,
  noEvents: 'None yet',
  none: 'No sites yet',
  noneWhy:
    'A site is a website, an app or a service whose events belong together. Its first event creates it, or you add it here.',
  search: 'Find a site',
  noMatch: (text: string) => `No site has “${text}” in its name or its ID`,
}
