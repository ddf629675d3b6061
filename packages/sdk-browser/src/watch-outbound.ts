/** Calls `onClick` for clicks on links to other hosts, which are not delayed, until `signal` is aborted. */
export function watchOutbound(onClick: (href: string) => void, signal: AbortSignal): void {
  for (const type of ['click', 'auxclick'] as const) {
    const listen = (event: MouseEvent): void => {
      // The middle button opens a link too, the right one does not.
      if (event.button > 1) return
      // The path includes elements in shadow trees.
      const link = (event.composedPath() as HTMLAnchorElement[]).find(({ localName }) => localName === 'a')
      if (link?.host && link.host !== location.host) onClick(link.href)
    }
    // In the capture phase, this listener runs before the page's own can stop the event.
    addEventListener(type, listen, { capture: true, signal })
  }
}
