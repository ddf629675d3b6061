import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'

/** Renders its children once it has been on the screen: what is asked for many rows is asked only for those seen. */
export function InView({
  children,
  placeholder,
}: {
  children: () => ComponentChildren
  placeholder: ComponentChildren
}) {
  const element = useRef<HTMLSpanElement>(null)
  const [isSeen, setSeen] = useState(false)
  useEffect(() => {
    if (isSeen || element.current === null) return undefined
    const observer = new IntersectionObserver(([entry]) => {
      if (entry?.isIntersecting === true) setSeen(true)
    })
    observer.observe(element.current)
    return () => {
      observer.disconnect()
    }
  }, [isSeen])
  return <span ref={element}>{isSeen ? children() : placeholder}</span>
}
