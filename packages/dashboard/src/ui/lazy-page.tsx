import type { ComponentType } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { messages } from '../messages/en.ts'
import { Button } from './button.tsx'
import { EmptyState, SkeletonRows } from './states.tsx'

type Load<Props> = () => Promise<{ default: ComponentType<Props> }>

const reloadedAt = 'reloaded-at'
const reloadAgainMs = 60_000

/** Reloads the page unless it has been reloaded for this reason within a minute; false when it has, or can't tell. */
function reloadOnce(): boolean {
  try {
    if (Date.now() - Number(sessionStorage.getItem(reloadedAt)) < reloadAgainMs) return false
    sessionStorage.setItem(reloadedAt, String(Date.now()))
  } catch {
    return false
  }
  location.reload()
  return true
}

/** Whether the server answers: a page that reloads without it would be the browser's error page. */
async function isServerThere(): Promise<boolean> {
  try {
    return (await fetch('/', { method: 'HEAD', cache: 'no-store' })).ok
  } catch {
    return false
  }
}

/**
 * A component in a chunk of its own. A chunk of an older build is gone from the server: then the page reloads once,
 * which brings the newer build, and says so if that did not help. While the server is unavailable, the page says that.
 */
export function lazyPage<Props extends object>(load: Load<Props>): ComponentType<Props> {
  let loaded: ComponentType<Props> | undefined
  return function LazyPage(props: Props) {
    const [Page, setPage] = useState<ComponentType<Props> | undefined>(() => loaded)
    const [failure, setFailure] = useState<'chunk' | 'unreachable'>()
    useEffect(() => {
      if (loaded !== undefined) return
      load().then(
        (module) => {
          loaded = module.default
          setPage(() => module.default)
        },
        async () => {
          if (!(await isServerThere())) setFailure('unreachable')
          else if (!reloadOnce()) setFailure('chunk')
        },
      )
    }, [])
    if (Page !== undefined) return <Page {...props} />
    if (failure === undefined) return <SkeletonRows rows={6} />
    return (
      <EmptyState
        isPage
        title={messages.errors[failure]}
        action={
          <Button kind="primary" onClick={() => location.reload()}>
            {messages.errors.reload}
          </Button>
        }
      />
    )
  }
}
