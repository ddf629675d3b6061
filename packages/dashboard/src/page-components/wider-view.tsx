import { messages } from '../messages/en.ts'
import { useView, useViewQueries } from '../state/hooks.ts'
import { Button } from '../ui/button.tsx'

/** Shows the events of all environments. Nothing where the view has all of them already. */
export function AllEnvironments() {
  const { setView } = useView()
  const { environment } = useViewQueries()
  if (environment === 'all') return null
  return (
    <Button
      onClick={() => {
        setView({ env: 'all' })
      }}
    >
      {messages.empty.allEnvironments}
    </Button>
  )
}

/** The way from a view without events to a wider one: first to all of the site's time, then to all environments. */
export function WiderView() {
  const { range, setView } = useView()
  if (range === 'all') return <AllEnvironments />
  return (
    <Button
      onClick={() => {
        setView({ range: 'all' })
      }}
    >
      {messages.empty.allTime}
    </Button>
  )
}
