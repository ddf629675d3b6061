/** Whether `If-None-Match` names the tag; weakly, as RFC 9110 section 13.1.2 requires: proxies that compress weaken tags. */
export function isKnown(etag: string, ifNoneMatch = ''): boolean {
  const tags = ifNoneMatch.split(',').map((tag) => tag.trim().replace(/^W\//, ''))
  return tags.includes(etag) || tags.includes('*')
}
