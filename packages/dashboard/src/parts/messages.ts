/** Texts of parts that several pages have. */
export const texts = {
  ways: 'Ways to send an event',
  curl: 'curl',
  browser: 'Browser',
  node: 'Node',
  snippet: (name: string) => `Snippet for ${name}`,
  what: 'Snippet',
  placeholder: '<your key>',
  where: 'where',
  and: 'and',
  group: 'a group of conditions',
  addCondition: 'Add a condition',
} as const
