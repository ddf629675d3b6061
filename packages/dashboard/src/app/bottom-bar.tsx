import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { messages } from '../messages/en.ts'
import { Dialog } from '../ui/dialog.tsx'
import { Icon, type IconName } from '../ui/icon.tsx'
import { destinations } from './navigation.tsx'
import { Group, type NavigationProps, RailFoot } from './rail.tsx'

/** The navigation of narrow screens. */
export function BottomBar({ route, siteId }: NavigationProps) {
  const [opened, setOpened] = useState<'explore' | 'more'>()
  const { analyses, operations, settings } = destinations
  const close = () => setOpened(undefined)
  const groups = opened === 'explore' ? [analyses.slice(2)] : [operations, settings]
  return (
    <nav class="bottom-bar" aria-label={messages.nav.main}>
      <Group group={analyses.slice(0, 2)} route={route} siteId={siteId} />
      <BottomButton icon="search" onClick={() => setOpened('explore')}>
        {messages.nav.explore}
      </BottomButton>
      <BottomButton icon="menu" onClick={() => setOpened('more')}>
        {messages.nav.more}
      </BottomButton>
      {opened === undefined ? null : (
        <Dialog title={messages.nav[opened]} onClose={close}>
          <div class="stack-small">
            {groups.map((group, at) => (
              <Group key={at} group={group} route={route} siteId={siteId} onFollow={close} />
            ))}
            {opened === 'more' ? (
              <div onClick={close}>
                <a class="nav-link" href="/">
                  <Icon name="globe" />
                  {messages.nav.allSites}
                </a>
                <RailFoot route={route} />
              </div>
            ) : null}
          </div>
        </Dialog>
      )}
    </nav>
  )
}

function BottomButton({
  icon,
  onClick,
  children,
}: {
  icon: IconName
  onClick: () => void
  children: ComponentChildren
}) {
  return (
    <button type="button" class="nav-link" onClick={onClick}>
      <Icon name={icon} />
      {children}
    </button>
  )
}
