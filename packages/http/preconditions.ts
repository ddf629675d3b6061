/**
 * Whether `If-None-Match` names the tag; weakly, as RFC 9110 section 13.1.2 requires: proxies that compress weaken
 * tags.
 */
export function matchesEtag(etag: string, ifNoneMatch = ''): boolean {
  return names(ifNoneMatch, etag) || names(ifNoneMatch, `W/${etag}`)
}

/**
 * Whether `If-Match` names the tag; strongly, as RFC 9110 section 13.1.1 requires: a weak tag stands for other bytes,
 * too. True without the header.
 */
export function passesIfMatch(etag: string, ifMatch: string | undefined): boolean {
  return ifMatch === undefined || names(ifMatch, etag)
}

/** Whether the list holds the tag or is `*`. A tag may hold commas. */
function names(list: string, etag: string): boolean {
  return list.trim() === '*' || list.match(/(?:W\/)?"[^"]*"/g)?.some((tag) => tag === etag) === true
}
